from tests.functional.task.driver import Task

UPSERT = """on input db.i as (
  delete from db.t where key in (select key from db.i);
  insert into db.t select key, max(val) as val from db.i group by key
)"""


def test_upsert(spark, tmp_path):
    task = Task(spark, tmp_path, UPSERT)
    task.input.write(10, [(1, 1, 1), (2, 2, 1)])
    print(task.run(12))
    print(task.output.updates(), task.output.upper)
    task.input.write(20, [(1, 5, 1)])
    task.input.write(30, [(3, 5, 1), (1, 5, -1), (1, 7, 1)])
    print(task.run(40))
    print(task.output.updates(), task.output.upper)
    assert 0


def test_transform(spark, tmp_path):
    task = Task(spark, tmp_path, "from transform db.i using (select key, val + 1 from db.i where val > 0)")
    task.input.write(10, [(1, 1, 1), (2, 2, 1)])
    print(task.run(12))
    task.input.write(20, [(1, 5, 1)])
    task.input.write(30, [(3, 5, 3), (1, 5, -1), (1, 7, 1)])
    engine = task.engine()
    print(task.run(40, engine=engine))
    print(task.output.updates(), task.output.upper)
    print([w for w,_ in engine.ran])
    assert 0

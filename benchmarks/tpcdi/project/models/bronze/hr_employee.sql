select
  employeeid, managerid, employeefirstname, employeelastname, employeemi, employeejobcode,
  employeebranch, employeeoffice, employeephone
from {{ source('tpcdi', 'batch1_hr') }}

"""Spark's built-in functions, classified by whether their values depend on their arguments alone.

Every name of Spark's registry is in exactly one of these sets; a test goes through Spark's own
list. A function that is in none is refused until it is classified.
"""

from __future__ import annotations


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


WITHOUT_ARGUMENTS = _names("unix_timestamp")  # with an argument it is a plain function
# The clock, chance and files: a model that calls one is warned of it.
NONDETERMINISTIC = WITHOUT_ARGUMENTS | _names(
    "current_timestamp now localtimestamp current_date curdate current_time rand randn random randstr uuid shuffle "
    "monotonically_increasing_id spark_partition_id input_file_name uniform"
)
# Values that come from elsewhere than the arguments: also the session, the user, code that is not
# Spark's. `aes_encrypt` draws its initial vector, KLL sketches their bits.
ELSEWHERE = NONDETERMINISTIC - WITHOUT_ARGUMENTS | _names(
    "aes_encrypt current_catalog current_database current_schema current_timezone current_user "
    "distributed_id distributed_sequence_id from_protobuf input_file_block_length input_file_block_start java_method "
    "kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint "
    "kll_sketch_to_string_double kll_sketch_to_string_float localtime reflect session_user to_protobuf try_reflect user version"
)
BARE = _names(  # those that need no parentheses
    "current_catalog current_database current_date current_schema current_time current_timestamp current_user localtime localtimestamp "
    "session_user user"
)

# Aggregates whose value comes from the bag of their arguments, in any order, however it is split.
REPEATABLE_AGGREGATES = _names(
    "any approx_count_distinct bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or count "
    "count_if every max median min percentile percentile_cont percentile_disc regr_count some"
)
AVERAGES = _names("avg mean try_avg")
SUMS = AVERAGES | _names("sum try_sum")  # likewise over exact numbers; doubles add up to different ones
# Those whose value depends on the order of rows, on which of several equal rows comes first, or on
# rounding in between: those that compute with doubles, those that estimate, and the others.
ROUNDED = _names(
    "corr covar_pop covar_samp kurtosis pandas_covar pandas_kurt pandas_product pandas_skew pandas_stddev pandas_var product "
    "regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness std stddev stddev_pop stddev_samp "
    "var_pop var_samp variance"
)
ESTIMATES = _names(
    "approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine count_min_sketch histogram_numeric hll_sketch_agg "
    "hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double "
    "kll_sketch_agg_float percentile_approx theta_intersection_agg theta_sketch_agg theta_union_agg"
)
TEXT_LISTS = _names("listagg string_agg")
UNREPEATABLE_AGGREGATES = (
    ROUNDED
    | ESTIMATES
    | TEXT_LISTS
    | _names(
        "any_value array_agg bloom_filter_agg collect_list collect_set collect_top_k first first_value grouping grouping_id last "
        "last_value max_by min_by mode pandas_mode schema_of_variant_agg"
    )
)
AGGREGATES = REPEATABLE_AGGREGATES | SUMS | UNREPEATABLE_AGGREGATES
# Window functions whose value is the same for rows that are equal in ORDER BY, and those that
# number or pick rows one by one.
PEER_WINDOWS = _names("cume_dist dense_rank percent_rank rank")
ROW_WINDOWS = _names("lag lead nth_value ntile row_number")
WINDOWS = PEER_WINDOWS | ROW_WINDOWS | _names("ewm null_index session_window window window_time")
LISTS = _names("collect_list collect_set array_agg")  # of values, in the order of rows
GENERATORS = _names(
    "explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode variant_explode_outer"
)
TABLE_FUNCTIONS = GENERATORS | {"range"}
GENERATED = {  # the columns that they have without a list of names
    "explode": ("col",),
    "explode_outer": ("col",),
    "posexplode": ("pos", "col"),
    "posexplode_outer": ("pos", "col"),
    "range": ("id",),
}
# Collations, and names that only other clauses or Spark itself can call.
REFUSED = _names(
    "approx_top_k_estimate bucket collate collation collations cube days hours months rollup sql_keywords timestamp_ntz_to_long unwrap_udt years"
)
ROW_BY_ROW = _names(
    "abs acos acosh add_months aes_decrypt aggregate and array array_append array_binary_search array_compact array_contains "
    "array_distinct array_except array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove "
    "array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh base64 "
    "between bigint bin binary bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number bitmap_count boolean bround btrim "
    "cardinality case cast cbrt ceil ceiling char char_length character_length chr coalesce concat concat_ws contains conv "
    "convert_timezone cos cosh cot crc32 csc date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc "
    "dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear dec decimal decode degrees div double e element_at elt encode "
    "endswith equal_null exists exp expm1 extract factorial filter find_in_set flatten float floor forall format_number format_string "
    "from_avro from_csv from_json from_unixtime from_utc_timestamp from_xml get get_json_object getbit greatest hash hex "
    "hll_sketch_estimate hll_union hour hypot if ifnull ilike in initcap instr int is_valid_utf8 is_variant_null isnan isnotnull isnull "
    "json_array_length json_object_keys kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float "
    "kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint "
    "kll_sketch_get_rank_double kll_sketch_get_rank_float last_day lcase least left len length levenshtein like ln locate log log10 "
    "log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz "
    "make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays "
    "map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname months_between named_struct nanvl negative "
    "next_day not nullif nullifzero numeric nvl nvl2 octet_length or overlay parse_json parse_url pi pmod position positive pow power "
    "printf quarter quote radians raise_error reduce regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like "
    "regexp_replace regexp_substr repeat replace reverse right rint rlike round rpad rtrim schema_of_avro schema_of_csv schema_of_json "
    "schema_of_variant schema_of_xml sec second sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin "
    "sinh size slice smallint sort_array soundex space split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid "
    "st_srid startswith str_to_map string struct substr substring substring_index tan tanh theta_difference theta_intersection "
    "theta_sketch_estimate theta_union time time_diff time_trunc timestamp timestamp_micros timestamp_millis timestamp_seconds "
    "timestampadd timestampdiff tinyint to_avro to_binary to_char to_csv to_date to_json to_number to_time to_timestamp "
    "to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml transform transform_keys "
    "transform_values translate trim trunc try_add try_aes_decrypt try_cast try_divide try_element_at try_make_interval "
    "try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract "
    "try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_get typeof ucase "
    "unbase64 unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper url_decode url_encode validate_utf8 varchar "
    "variant_get weekday weekofyear width_bucket xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number "
    "xpath_short xpath_string xxhash64 year zeroifnull zip_with"
)

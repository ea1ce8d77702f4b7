import { timeCheckFunction } from './time-check.ts';

/** SQLite functions that statements can call: pure functions without side effects. */
export const sqliteFunctions: ReadonlySet<string> = new Set(
  [
    timeCheckFunction,
    'count sum total avg min max group_concat string_agg percentile percentile_cont median',
    'abs ceil ceiling coalesce floor ifnull iif if nullif round sign',
    'concat format glob hex instr length like likely lower ltrim printf replace rtrim substr substring trim unlikely upper',
    'date datetime julianday strftime time unixepoch',
    'json json_array_length json_extract json_group_array json_type json_valid -> ->>',
    'row_number rank dense_rank lag lead first_value last_value',
  ].flatMap((names) => names.split(' ')),
);

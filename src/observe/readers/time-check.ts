/**
 * Name of an SQL function on connections of `ReadOnlyDatabase`. A statement calls it about every thousand rows. It
 * returns 1, or throws when the time of the statement is over. SQLite in Node has no other way to interrupt a running
 * statement.
 */
export const timeCheckFunction = 'in_time';

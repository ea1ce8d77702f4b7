/**
 * A function that SQLite knows on connections of `ReadOnlyDatabase`. A statement may call it where it goes through many
 * rows, every thousand or so: it is 1, and ends the statement when its time is over. Nothing else ends a statement that
 * SQLite is in the middle of.
 */
export const inTime = 'in_time';

/** Formats a count with a regular noun: `1 model`, `2 models`. */
export const pluralize = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

const mostNamed = 8;

/** What is wrong, in a list short enough to read: the first of many, and how many more there are. */
export const few = (words: readonly (string | number)[], separator = ', ', most = mostNamed): string =>
  words.slice(0, most).join(separator) + (words.length > most ? ` and ${words.length - most} more` : '');

const mostNamed = 8;

/** Joins the first items of a list, and says how many more there are. */
export const few = (words: readonly (string | number)[], separator = ', ', most = mostNamed): string =>
  words.slice(0, most).join(separator) + (words.length > most ? ` and ${words.length - most} more` : '');

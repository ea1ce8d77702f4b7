const maxNamedItems = 8;

/** Joins the first items of a list, and says how many more there are. */
export const summarizeList = (
  items: readonly (string | number)[],
  separator = ', ',
  maxItems = maxNamedItems,
): string =>
  items.slice(0, maxItems).join(separator) +
  (items.length > maxItems ? ` and ${items.length - maxItems} more` : '');

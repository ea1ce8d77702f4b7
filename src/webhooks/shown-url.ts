/** A URL for people: its path, without the query, which may hold a secret. */
export function toShownUrl(text: string): string {
  const { origin, pathname, search } = new URL(text);
  return `${origin}${pathname}${search === '' ? '' : '?…'}`;
}

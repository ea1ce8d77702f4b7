/** JSON with spaces after commas and colons, as Python writes it and models were trained on. */
export function toSpacedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item: unknown) => toSpacedJson(item ?? null)).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}: ${toSpacedJson(member)}`).join(', ')}}`;
}

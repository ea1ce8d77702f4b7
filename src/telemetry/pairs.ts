/**
 * Parses percent-encoded `KEY=VALUE,KEY=VALUE` lists of OpenTelemetry's variables. A fault names the position of an entry,
 * not its text, which may be a secret.
 */
export function parsePairs(
  text: string,
  findFault: (key: string, value: string) => string | undefined,
): { pairs: Record<string, string>; faults: string[] } {
  const pairs: Record<string, string> = Object.create(null) as Record<string, string>;
  const faults: string[] = [];
  for (const [index, entry] of text.split(',').entries()) {
    if (entry.trim() === '') continue;
    const equalsIndex = entry.indexOf('=');
    const key = decodeComponent(entry.slice(0, Math.max(0, equalsIndex)).trim());
    const value = decodeComponent(entry.slice(equalsIndex + 1).trim());
    const fault =
      equalsIndex < 0 || key === '' || key === undefined || value === undefined
        ? 'expected KEY=VALUE, percent-encoded'
        : findFault(key, value);
    if (fault !== undefined) faults.push(`entry ${index + 1}: ${fault}`);
    else if (key !== undefined && value !== undefined) pairs[key] = value;
  }
  return { pairs: { ...pairs }, faults };
}

function decodeComponent(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

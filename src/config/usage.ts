/** Faults of a command line or a configuration file, one per line. Exit code 2. */
export class UsageError extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(faults.join('\n'));
    this.name = 'UsageError';
    this.faults = faults;
  }
}

/** Formats a value for a message, as JSON of at most 60 characters. */
export function formatValue(value: unknown): string {
  const json =
    JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? Number(part) : part)) ??
    String(value);
  return json.length > 60 ? `${json.slice(0, 57)}...` : json;
}

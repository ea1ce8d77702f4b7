/** What is wrong with a command line or a configuration file: every fault, one a line. Exit code 2. */
export class UsageError extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(faults.join('\n'));
    this.name = 'UsageError';
    this.faults = faults;
  }
}

/** A value as a message shows it. */
export function show(value: unknown): string {
  const written =
    JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? Number(part) : part)) ??
    String(value);
  return written.length > 60 ? `${written.slice(0, 57)}...` : written;
}

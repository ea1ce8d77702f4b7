/** A metric family of Prometheus' text format, version 0.0.4. */
export interface Family {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly samples: readonly Sample[];
}

export interface Sample {
  /** Suffix of the family's name: `_bucket`, `_sum`, `_count`. */
  readonly suffix?: string;
  readonly labels?: Labels;
  readonly value: number | bigint;
}

export type Labels = Readonly<Record<string, string>>;

export const exposition = (families: readonly Family[]): string => families.map(familyText).join('');

function familyText({ name, type, help, samples }: Family): string {
  const lines = samples.map(
    ({ suffix = '', labels, value }) => `${name}${suffix}${labelText(labels)} ${valueText(value)}\n`,
  );
  return `# HELP ${name} ${helpText(help)}\n# TYPE ${name} ${type}\n${lines.join('')}`;
}

function labelText(labels: Labels = {}): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escaped(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

const helpText = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
const escaped = (text: string): string => helpText(text).replaceAll('"', '\\"');

export function valueText(value: number | bigint): string {
  if (value === Infinity) return '+Inf';
  return value === -Infinity ? '-Inf' : String(value);
}

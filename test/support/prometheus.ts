/** Reads Prometheus' text format 0.0.4 and refuses what its grammar does. */
export interface PrometheusFamily {
  readonly type: string;
  readonly help: string;
  readonly samples: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly value: number;
  }[];
}

const nameForm = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const types = ['counter', 'gauge', 'histogram', 'summary', 'untyped'];
const suffixes: Readonly<Record<string, readonly string[]>> = { histogram: ['_bucket', '_sum', '_count'] };

export function readPrometheus(text: string): Map<string, PrometheusFamily> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const families = new Map<string, PrometheusFamily>();
  const seen = new Set<string>();
  let help: { name: string; text: string } | undefined;
  let current: { name: string; family: PrometheusFamily } | undefined;
  for (const line of text.slice(0, -1).split('\n')) {
    const [, helped, helpText] = new RegExp(`^# HELP (${nameForm}) (.*)$`).exec(line) ?? [];
    if (helped !== undefined && helpText !== undefined) {
      if (!/^(?:[^\\]|\\[\\n])*$/.test(helpText)) throw new Error(`a bad escape: ${line}`);
      help = { name: helped, text: helpText };
      continue;
    }
    const [, typed, type = ''] = new RegExp(`^# TYPE (${nameForm}) (\\w+)$`).exec(line) ?? [];
    if (typed !== undefined) {
      if (!types.includes(type) || families.has(typed) || help?.name !== typed)
        throw new Error(`misplaced: ${line}`);
      current = { name: typed, family: { type, help: help.text, samples: [] } };
      families.set(typed, current.family);
      continue;
    }
    const sample = sampleOf(line);
    const fits = (suffixes[current?.family.type ?? ''] ?? ['']).some(
      (suffix) => sample.name === `${current?.name}${suffix}`,
    );
    if (!current || !fits) throw new Error(`in no family: ${line}`);
    const id = `${sample.name} ${Object.entries(sample.labels).map(String).sort().join(' ')}`;
    if (seen.has(id)) throw new Error(`twice: ${line}`);
    seen.add(id);
    current.family.samples.push(sample);
  }
  for (const [name, family] of families) checkValues(name, family);
  return families;
}

function sampleOf(line: string) {
  const found = new RegExp(`^(${nameForm})(?:\\{(.*)\\})? (\\S+)$`).exec(line);
  if (!found) throw new Error(`no sample: ${line}`);
  const [, name = '', pairs, value = ''] = found;
  if (!/^(?:[+-]?Inf|NaN|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)$/.test(value))
    throw new Error(`no value: ${line}`);
  return { name, labels: labelsOf(pairs, line), value: Number(value.replace('Inf', 'Infinity')) };
}

function labelsOf(pairs: string | undefined, line: string): Record<string, string> {
  const labels: Record<string, string> = {};
  if (pairs === undefined) return labels;
  const one = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\[\\"n])*)"(?:,|$)/y;
  while (one.lastIndex < pairs.length) {
    const [, label = '', value = ''] = one.exec(pairs) ?? [];
    if (label === '' || label in labels) throw new Error(`bad labels: ${line}`);
    labels[label] = value.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped));
  }
  return labels;
}

function checkValues(name: string, { type, samples }: PrometheusFamily): void {
  if (type === 'counter' && samples.some(({ value }) => !(value >= 0))) throw new Error(`${name} is below 0`);
  if (type !== 'histogram') return;
  const counts = samples.filter((sample) => sample.name.endsWith('_count'));
  for (const { labels, value } of counts) {
    const of = JSON.stringify(labels);
    const buckets = samples
      .filter((sample) => sample.name.endsWith('_bucket'))
      .map(({ labels: { le = '', ...rest }, value: count }) => ({
        le: Number(le.replace('Inf', 'Infinity')),
        rest,
        count,
      }))
      .filter(({ rest }) => JSON.stringify(rest) === of);
    const inOrder = buckets.every(({ le, count }, at) => {
      const before = buckets[at - 1];
      return before === undefined || (before.le < le && before.count <= count);
    });
    const last = buckets.at(-1);
    if (!inOrder || last?.le !== Infinity || last.count !== value)
      throw new Error(`${name}${of}: bad buckets`);
    if (!samples.some((sample) => sample.name.endsWith('_sum') && JSON.stringify(sample.labels) === of))
      throw new Error(`${name}${of}: no sum`);
  }
}

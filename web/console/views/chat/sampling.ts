import type { Fault } from '../../../api/fault.ts';

/** Sampling parameters as typed; empty: the default of the host. */
export type Sampling = Readonly<Record<SamplingName, string>>;
export type SamplingName =
  | (typeof samplingFields)[number]['name']
  | 'model'
  | 'stop'
  | 'tools'
  | 'alternatives';

export const samplingFields = [
  {
    name: 'temperature',
    label: 'Temperature',
    defaultText: '1',
    step: 0.1,
    hint: '0 always picks the most likely token.',
  },
  {
    name: 'top_p',
    label: 'Top p',
    defaultText: '1',
    step: 0.05,
    hint: 'Samples from the most likely tokens up to this cumulative probability.',
  },
  {
    name: 'top_k',
    label: 'Top k',
    defaultText: '0',
    step: 1,
    hint: 'Samples from this many most likely tokens; 0 means all.',
  },
  {
    name: 'min_p',
    label: 'Min p',
    defaultText: '0',
    step: 0.01,
    hint: 'Minimum probability, relative to the most likely token.',
  },
  { name: 'seed', label: 'Seed', defaultText: 'random', step: 1, hint: 'The same seed gives the same text.' },
  {
    name: 'max_tokens',
    label: 'Max tokens',
    defaultText: 'as many as fit',
    step: 1,
    hint: 'Maximum length of the answer.',
  },
] as const;

/** Default number of most likely tokens requested per position. */
export const defaultAlternatives = '5';
export const alternativeChoices = ['off', '0', '3', '5', '10', '20'] as const;

const names: readonly SamplingName[] = [
  ...samplingFields.map(({ name }) => name),
  'model',
  'stop',
  'tools',
  'alternatives',
];

export function samplingFromUrl(search: URLSearchParams): Sampling {
  const values = Object.fromEntries(names.map((name) => [name, search.get(name) ?? '']));
  return { ...values, alternatives: values['alternatives'] || defaultAlternatives } as Sampling;
}

/** Returns the search parameters with one value changed; defaults are not written. */
export function withSampling(search: URLSearchParams, name: SamplingName, value: string): URLSearchParams {
  const after = new URLSearchParams(search);
  if (value === '' || (name === 'alternatives' && value === defaultAlternatives)) after.delete(name);
  else after.set(name, value);
  return after;
}

/**
 * Members of the request. Text that is not a number, or not JSON, is sent unchanged, so that the host reports all violations
 * at once.
 */
export function samplingBody(sampling: Sampling): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  if (sampling.model !== '') body['model'] = sampling.model;
  for (const { name } of samplingFields) {
    const text = sampling[name].trim();
    if (text !== '') body[name] = Number.isNaN(Number(text)) ? text : Number(text);
  }
  const stop = parseStopSequences(sampling.stop);
  if (stop.length > 0) body['stop'] = stop;
  if (sampling.tools.trim() !== '') body['tools'] = jsonOrText(sampling.tools);
  if (sampling.alternatives !== 'off') {
    body['logprobs'] = true;
    body['top_logprobs'] = Number(sampling.alternatives);
  }
  return body;
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Parses stop sequences, one per line, with the escapes `\n`, `\t` and `\\`. */
export const parseStopSequences = (text: string): string[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replaceAll(/\\([nt\\])/g, (_, letter: string) => escapes[letter] ?? letter));
const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', '\\': '\\' };

/** The host's violations of a member and of paths below it. */
export const faultAt = (fault: Fault | undefined, name: string): string | undefined =>
  fault?.violations
    .filter(({ path }) => path === name || path.startsWith(`${name}.`))
    .map(({ path, message }) => (path === name ? message : `${path.slice(name.length + 1)}: ${message}`))
    .join('; ') || undefined;

/** The members of a request that distinguish answers to the same messages, as text: `temperature 0.5, seed 7`. */
export function describeSettings(body: Readonly<Record<string, unknown>>): string {
  const parts = [...samplingFields.map(({ name }) => name), 'stop'].flatMap((name) =>
    body[name] === undefined
      ? []
      : [
          `${name.replaceAll('_', ' ')} ${typeof body[name] === 'number' ? body[name] : JSON.stringify(body[name])}`,
        ],
  );
  return parts.length === 0 ? "the host's defaults" : parts.join(', ');
}

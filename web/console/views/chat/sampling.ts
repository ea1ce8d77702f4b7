import type { Fault } from '../../api/fault.ts';

/** As it was typed; empty: left to the host. */
export type Sampling = Readonly<Record<SamplingName, string>>;
export type SamplingName = (typeof samplingFields)[number]['name'] | 'stop' | 'alternatives';

export const samplingFields = [
  { name: 'temperature', label: 'Temperature', usual: '1', step: 0.1, hint: '0 takes the likeliest token.' },
  { name: 'top_p', label: 'Top p', usual: '1', step: 0.05, hint: 'Likeliest tokens up to this probability.' },
  { name: 'top_k', label: 'Top k', usual: '0', step: 1, hint: 'This many of the likeliest; 0 is all.' },
  {
    name: 'min_p',
    label: 'Min p',
    usual: '0',
    step: 0.01,
    hint: "At least this part of the likeliest token's probability.",
  },
  { name: 'seed', label: 'Seed', usual: 'random', step: 1, hint: 'The same gives the same text.' },
  {
    name: 'max_tokens',
    label: 'Most tokens',
    usual: 'what fits',
    step: 1,
    hint: "The answer's greatest length.",
  },
] as const;

/** How many of the likeliest tokens are asked for at each place. */
export const alternativesUsual = '5';
export const alternativesOffered = ['off', '0', '3', '5', '10', '20'] as const;

const names: readonly SamplingName[] = [...samplingFields.map(({ name }) => name), 'stop', 'alternatives'];

export function samplingOf(search: URLSearchParams): Sampling {
  const values = Object.fromEntries(names.map((name) => [name, search.get(name) ?? '']));
  return { ...values, alternatives: values['alternatives'] || alternativesUsual } as Sampling;
}

/** The same search with another value of one control; what is usual is not written there. */
export function withSampling(search: URLSearchParams, name: SamplingName, value: string): URLSearchParams {
  const after = new URLSearchParams(search);
  if (value === '' || (name === 'alternatives' && value === alternativesUsual)) after.delete(name);
  else after.set(name, value);
  return after;
}

/** Members of the request. What is no number goes as it is: the host says what it expects, of all members at once. */
export function samplingBody(sampling: Sampling): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const { name } of samplingFields) {
    const typed = sampling[name].trim();
    if (typed !== '') body[name] = Number.isNaN(Number(typed)) ? typed : Number(typed);
  }
  const stop = stopTexts(sampling.stop);
  if (stop.length > 0) body['stop'] = stop;
  if (sampling.alternatives !== 'off') {
    body['logprobs'] = true;
    body['top_logprobs'] = Number(sampling.alternatives);
  }
  return body;
}

/** One a line; `\n`, `\t` and `\\` stand for what they do in programs. */
export const stopTexts = (typed: string): string[] =>
  typed
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replaceAll(/\\([nt\\])/g, (_, letter: string) => escapes[letter] ?? letter));
const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', '\\': '\\' };

/** What the host said of a control's member, with the others that are not shown beside it. */
export const faultAt = (fault: Fault | undefined, name: string): string | undefined =>
  fault?.violations
    .filter(({ path }) => path === name || path.startsWith(`${name}.`))
    .map(({ path, message }) => (path === name ? message : `${path.slice(name.length + 1)}: ${message}`))
    .join('; ') || undefined;

/** Settings in the URL of the page: model, system prompt and sampling. Defaults are not written. */

export type SamplerName =
  | 'temperature'
  | 'top_p'
  | 'top_k'
  | 'min_p'
  | 'repetition_penalty'
  | 'max_tokens'
  | 'seed';

interface Sampler {
  readonly name: SamplerName;
  readonly label: string;
  readonly hint: string;
  readonly min: number;
  readonly max: number;
  readonly step: number;
  /** Default; undefined: the request omits the parameter. */
  readonly usual: number | undefined;
  /** Whether web-llm has the parameter, under the same name. */
  readonly isShared: boolean;
}

export type Sampling = Readonly<Record<SamplerName, number | undefined>>;

export const samplers: readonly Sampler[] = [
  {
    name: 'temperature',
    label: 'Temperature',
    hint: '0 always picks the most likely token, so the same prompt gives the same answer.',
    min: 0,
    max: 2,
    step: 0.05,
    usual: 0,
    isShared: true,
  },
  {
    name: 'max_tokens',
    label: 'Max tokens',
    hint: 'Maximum length of the answer.',
    min: 1,
    max: 32_768,
    step: 1,
    usual: 256,
    isShared: true,
  },
  {
    name: 'top_p',
    label: 'Top p',
    hint: 'Samples from the most likely tokens up to this cumulative probability. 1: all.',
    min: 0.01,
    max: 1,
    step: 0.01,
    usual: 1,
    isShared: true,
  },
  {
    name: 'top_k',
    label: 'Top k',
    hint: 'Samples from this many most likely tokens. 0: all.',
    min: 0,
    max: 1000,
    step: 1,
    usual: 0,
    isShared: false,
  },
  {
    name: 'min_p',
    label: 'Min p',
    hint: 'Minimum probability, relative to the most likely token. 0: all.',
    min: 0,
    max: 1,
    step: 0.01,
    usual: 0,
    isShared: false,
  },
  {
    name: 'repetition_penalty',
    label: 'Repetition penalty',
    hint: 'Values above 1 make tokens that already occurred less likely.',
    min: 0.5,
    max: 2,
    step: 0.05,
    usual: 1,
    isShared: true,
  },
  {
    name: 'seed',
    label: 'Seed',
    hint: 'Seed of the sampler, used when the temperature is above 0. Empty: a new seed each time.',
    min: 0,
    max: 2 ** 31 - 1,
    step: 1,
    usual: undefined,
    isShared: true,
  },
];

export interface Settings {
  /** URL of the weights; empty: the embedded model. */
  readonly model: string;
  readonly system: string;
  readonly sampling: Sampling;
  /** Id of the selected model in web-llm's list. */
  readonly webLlm: string;
}

/** @returns what is wrong with the value, or undefined */
export function faultOfSampler({ min, max, step }: Sampler, value: number): string | undefined {
  if (!Number.isFinite(value)) return 'must be a number';
  if (value < min || value > max) return `must be from ${min} to ${max}`;
  return step === 1 && !Number.isInteger(value) ? 'must be a whole number' : undefined;
}

/** Reads the settings from a URL search. Values out of range are ignored. */
export function settingsOf(search: string): Settings {
  const held = new URLSearchParams(search);
  const valueOf = (sampler: Sampler): number | undefined => {
    const text = held.get(sampler.name);
    if (text === null || text.trim() === '') return sampler.usual;
    const value = Number(text);
    return faultOfSampler(sampler, value) === undefined ? value : sampler.usual;
  };
  return {
    model: held.get('model') ?? '',
    system: held.get('system') ?? '',
    sampling: Object.fromEntries(samplers.map((sampler) => [sampler.name, valueOf(sampler)])) as Sampling,
    webLlm: held.get('web-llm') ?? '',
  };
}

/** Writes the settings as a URL search. @returns with its question mark, or empty */
export function searchOf({ model, system, sampling, webLlm }: Settings): string {
  const said = new URLSearchParams();
  if (model !== '') said.set('model', model);
  if (system !== '') said.set('system', system);
  for (const { name, usual } of samplers) {
    const value = sampling[name];
    if (value !== undefined && value !== usual) said.set(name, String(value));
  }
  if (webLlm !== '') said.set('web-llm', webLlm);
  const text = said.toString();
  return text === '' ? '' : `?${text}`;
}

/**
 * Sampling members of a request: all that differ from the defaults, and those whose defaults differ between engines.
 */
export function requestedSampling(sampling: Sampling, { shared = false } = {}) {
  const alwaysSaid: readonly SamplerName[] = ['temperature', 'top_p', 'max_tokens'];
  return Object.fromEntries(
    samplers
      .filter(({ name, usual, isShared }) => {
        const value = sampling[name];
        return value !== undefined && (isShared || !shared) && (alwaysSaid.includes(name) || value !== usual);
      })
      .map(({ name }) => [name, sampling[name]]),
  ) as { readonly [Name in SamplerName]?: number };
}

/** Settings in the URL of the page: model, system prompt and sampling. Defaults are not written. */

export type SamplerName =
  | 'temperature'
  | 'top_p'
  | 'top_k'
  | 'min_p'
  | 'repetition_penalty'
  | 'max_tokens'
  | 'seed';

interface SamplerDefinition {
  readonly name: SamplerName;
  readonly label: string;
  readonly hint: string;
  readonly min: number;
  readonly max: number;
  readonly step: number;
  /** Default; undefined: the request omits the parameter. */
  readonly defaultValue: number | undefined;
  /** Whether web-llm has the parameter, under the same name. */
  readonly isInWebLlm: boolean;
}

export type Sampling = Readonly<Record<SamplerName, number | undefined>>;

export const samplers: readonly SamplerDefinition[] = [
  {
    name: 'temperature',
    label: 'Temperature',
    hint: '0 always picks the most likely token, so the same prompt gives the same answer.',
    min: 0,
    max: 2,
    step: 0.05,
    defaultValue: 0,
    isInWebLlm: true,
  },
  {
    name: 'max_tokens',
    label: 'Max tokens',
    hint: 'Maximum length of the answer.',
    min: 1,
    max: 32_768,
    step: 1,
    defaultValue: 256,
    isInWebLlm: true,
  },
  {
    name: 'top_p',
    label: 'Top p',
    hint: 'Samples from the most likely tokens up to this cumulative probability. 1: all.',
    min: 0.01,
    max: 1,
    step: 0.01,
    defaultValue: 1,
    isInWebLlm: true,
  },
  {
    name: 'top_k',
    label: 'Top k',
    hint: 'Samples from this many most likely tokens. 0: all.',
    min: 0,
    max: 1000,
    step: 1,
    defaultValue: 0,
    isInWebLlm: false,
  },
  {
    name: 'min_p',
    label: 'Min p',
    hint: 'Minimum probability, relative to the most likely token. 0: all.',
    min: 0,
    max: 1,
    step: 0.01,
    defaultValue: 0,
    isInWebLlm: false,
  },
  {
    name: 'repetition_penalty',
    label: 'Repetition penalty',
    hint: 'Values above 1 make tokens that already occurred less likely.',
    min: 0.5,
    max: 2,
    step: 0.05,
    defaultValue: 1,
    isInWebLlm: true,
  },
  {
    name: 'seed',
    label: 'Seed',
    hint: 'Seed of the sampler, used when the temperature is above 0. Empty: a new seed each time.',
    min: 0,
    max: 2 ** 31 - 1,
    step: 1,
    defaultValue: undefined,
    isInWebLlm: true,
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
export function samplerFault({ min, max, step }: SamplerDefinition, value: number): string | undefined {
  if (!Number.isFinite(value)) return 'must be a number';
  if (value < min || value > max) return `must be from ${min} to ${max}`;
  return step === 1 && !Number.isInteger(value) ? 'must be a whole number' : undefined;
}

/** Reads the settings from a URL search. Values out of range are ignored. */
export function settingsFromSearch(search: string): Settings {
  const parameters = new URLSearchParams(search);
  const valueOf = (sampler: SamplerDefinition): number | undefined => {
    const text = parameters.get(sampler.name);
    if (text === null || text.trim() === '') return sampler.defaultValue;
    const value = Number(text);
    return samplerFault(sampler, value) === undefined ? value : sampler.defaultValue;
  };
  return {
    model: parameters.get('model') ?? '',
    system: parameters.get('system') ?? '',
    sampling: Object.fromEntries(samplers.map((sampler) => [sampler.name, valueOf(sampler)])) as Sampling,
    webLlm: parameters.get('web-llm') ?? '',
  };
}

/** Writes the settings as a URL search. @returns with its question mark, or empty */
export function searchFromSettings({ model, system, sampling, webLlm }: Settings): string {
  const parameters = new URLSearchParams();
  if (model !== '') parameters.set('model', model);
  if (system !== '') parameters.set('system', system);
  for (const { name, defaultValue } of samplers) {
    const value = sampling[name];
    if (value !== undefined && value !== defaultValue) parameters.set(name, String(value));
  }
  if (webLlm !== '') parameters.set('web-llm', webLlm);
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}

/**
 * Sampling members of a request: all that differ from the defaults, and those whose defaults differ between engines.
 */
export function samplingMembers(sampling: Sampling, { forWebLlm = false } = {}) {
  const alwaysSent: readonly SamplerName[] = ['temperature', 'top_p', 'max_tokens'];
  return Object.fromEntries(
    samplers
      .filter(({ name, defaultValue, isInWebLlm }) => {
        const value = sampling[name];
        return (
          value !== undefined &&
          (isInWebLlm || !forWebLlm) &&
          (alwaysSent.includes(name) || value !== defaultValue)
        );
      })
      .map(({ name }) => [name, sampling[name]]),
  ) as { readonly [Name in SamplerName]?: number };
}

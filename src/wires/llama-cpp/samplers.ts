import { z } from 'zod';
import { unsupportedIssue } from '../../http/violations.ts';

/** The engine's samplers in their order, which is llama.cpp's. */
export const supportedSamplers = ['penalties', 'top_k', 'top_p', 'min_p', 'temperature'] as const;
type Sampler = (typeof supportedSamplers)[number];

/** Samplers that are disabled unless enabled by a member of their own, which is refused there. */
const ignoredSamplers = new Set(['dry', 'top_n_sigma', 'typ_p', 'typical_p', 'tfs_z', 'xtc', 'adaptive_p']);

/**
 * The requested samplers. `infill` filters the tokens at the end of a fill-in-the-middle answer and comes last, in
 * place of temperature. Here it selects the most likely token, which is its usual result.
 */
export interface Samplers {
  readonly enabled: ReadonlySet<Sampler>;
  readonly isGreedy: boolean;
}

const allSamplers: Samplers = { enabled: new Set(supportedSamplers), isGreedy: false };
const samplersError = `expected an array of samplers among ${supportedSamplers.join(', ')}, in this order`;

export const samplers = z
  .array(z.string({ error: samplersError }), { error: samplersError })
  .max(64, 'at most 64 samplers')
  .nullish()
  .describe(
    'Samplers that are absent are not used. The order is fixed: penalties, top_k, top_p, min_p, temperature. ' +
      'A final `infill` selects the most likely token.',
  )
  .transform((names, context): Samplers => {
    if (names === null || names === undefined) return allSamplers;
    const enabled = new Set<Sampler>();
    let last = -1;
    let isGreedy = false;
    for (const [index, name] of names.entries()) {
      const order = (supportedSamplers as readonly string[]).indexOf(name);
      const addIssue = (message: string) =>
        context.issues.push({ code: 'custom', message, path: [index], input: names, ...unsupportedIssue });
      if (name === 'infill' && index === names.length - 1) isGreedy = true;
      else if (order > last) enabled.add(supportedSamplers[(last = order)] as Sampler);
      else if (order !== -1) addIssue(`the order of the samplers is fixed: ${supportedSamplers.join(', ')}`);
      else if (!ignoredSamplers.has(name))
        addIssue(
          `there is no sampler '${name.slice(0, 40)}' here; there are ${supportedSamplers.join(', ')}`,
        );
    }
    return { enabled, isGreedy };
  });

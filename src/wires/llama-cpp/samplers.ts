import { z } from 'zod';
import { unsupportedMark } from '../../http/violations.ts';

/** The engine's samplers in their order, which is llama.cpp's. */
export const ourSamplers = ['penalties', 'top_k', 'top_p', 'min_p', 'temperature'] as const;
type Sampler = (typeof ourSamplers)[number];

/** Samplers that are disabled unless enabled by a member of their own, which is refused there. */
const idleSamplers = new Set(['dry', 'top_n_sigma', 'typ_p', 'typical_p', 'tfs_z', 'xtc', 'adaptive_p']);

/**
 * The requested samplers. `infill` filters the tokens at the end of a fill-in-the-middle answer and comes last, in
 * place of temperature. Here it selects the most likely token, which is its usual result.
 */
export interface Samplers {
  readonly used: ReadonlySet<Sampler>;
  readonly likeliest: boolean;
}

const all: Samplers = { used: new Set(ourSamplers), likeliest: false };
const form = `expected an array of samplers among ${ourSamplers.join(', ')}, in this order`;

export const samplers = z
  .array(z.string({ error: form }), { error: form })
  .max(64, 'at most 64 samplers')
  .nullish()
  .describe(
    'Samplers that are absent are not used. The order is fixed: penalties, top_k, top_p, min_p, temperature. ' +
      'A final `infill` selects the most likely token.',
  )
  .transform((names, context): Samplers => {
    if (names === null || names === undefined) return all;
    const used = new Set<Sampler>();
    let last = -1;
    let likeliest = false;
    for (const [index, name] of names.entries()) {
      const place = (ourSamplers as readonly string[]).indexOf(name);
      const fail = (message: string) =>
        context.issues.push({ code: 'custom', message, path: [index], input: names, ...unsupportedMark });
      if (name === 'infill' && index === names.length - 1) likeliest = true;
      else if (place > last) used.add(ourSamplers[(last = place)] as Sampler);
      else if (place !== -1) fail(`the order of the samplers is fixed: ${ourSamplers.join(', ')}`);
      else if (!idleSamplers.has(name))
        fail(`there is no sampler '${name.slice(0, 40)}' here; there are ${ourSamplers.join(', ')}`);
    }
    return { used, likeliest };
  });

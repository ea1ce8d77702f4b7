import type { Config } from '../config.ts';

/** More than any model has: before a list of them is made. */
const mostLayers = 1 << 16;

/** How many layers there are; 0 where the number is refused. */
export const layersOf = (config: Config): number => {
  const layers = config.count('num_hidden_layers');
  if (layers > mostLayers) {
    config.refuse(`num_hidden_layers must be at most ${mostLayers}, got ${layers}`);
    return 0;
  }
  return Number.isNaN(layers) ? 0 : layers;
};

/**
 * `layer_types`: what each layer is, undefined where the configuration has no such list.
 * @param known kinds that the family has
 */
export const kindsOfLayers = (config: Config, known: readonly string[]): readonly string[] | undefined => {
  const kinds = config.get('layer_types');
  if (kinds === undefined) return undefined;
  const layers = layersOf(config);
  if (!Array.isArray(kinds) || kinds.length !== layers || !kinds.every((kind) => known.includes(kind))) {
    config.refuse(`layer_types must hold ${known.join(' or ')} for each layer`);
    return [];
  }
  return kinds as string[];
};

import type { Config } from '../config.ts';

/** More than any model has. Limits the lists that are allocated per layer. */
const mostLayers = 1 << 16;

/** The number of layers; 0 after reporting a problem when the number is invalid. */
export const layersOf = (config: Config): number => {
  const layers = config.count('num_hidden_layers');
  if (layers > mostLayers) {
    config.refuse(`num_hidden_layers must be at most ${mostLayers}, got ${layers}`);
    return 0;
  }
  return Number.isNaN(layers) ? 0 : layers;
};

/**
 * The kind of each layer from `layer_types`; undefined when the configuration has no such list.
 * @param allowedKinds kinds that the family supports
 */
export const kindsOfLayers = (config: Config, known: readonly string[]): readonly string[] | undefined => {
  const kinds = config.get('layer_types');
  if (kinds === undefined) return undefined;
  const layers = layersOf(config);
  if (!Array.isArray(kinds) || kinds.length !== layers || !kinds.every((kind) => known.includes(kind))) {
    config.refuse(`layer_types must be an array with ${known.join(' or ')} for each of the ${layers} layers`);
    return [];
  }
  return kinds as string[];
};

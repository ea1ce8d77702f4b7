import type { ModelConfig } from '../config.ts';

/** More than any model has. Limits the lists that are allocated per layer. */
const maxLayers = 1 << 16;

/** The number of layers; 0 after reporting a problem when the number is invalid. */
export const layerCountOf = (config: ModelConfig): number => {
  const layers = config.count('num_hidden_layers');
  if (layers > maxLayers) {
    config.addProblem(`num_hidden_layers must be at most ${maxLayers}, got ${layers}`);
    return 0;
  }
  return Number.isNaN(layers) ? 0 : layers;
};

/**
 * The kind of each layer from `layer_types`; undefined when the configuration has no such list.
 * @param allowedKinds kinds that the family supports
 */
export const layerKindsOf = (
  config: ModelConfig,
  allowedKinds: readonly string[],
): readonly string[] | undefined => {
  const kinds = config.get('layer_types');
  if (kinds === undefined) return undefined;
  const layers = layerCountOf(config);
  if (
    !Array.isArray(kinds) ||
    kinds.length !== layers ||
    !kinds.every((kind) => allowedKinds.includes(kind))
  ) {
    config.addProblem(
      `layer_types must be an array with ${allowedKinds.join(' or ')} for each of the ${layers} layers`,
    );
    return [];
  }
  return kinds as string[];
};

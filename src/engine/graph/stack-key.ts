/** Key of a list of tensors that are stored consecutively: weights of a product, or vectors. */
export const stackKey = (names: readonly string[]): string => names.join('+');

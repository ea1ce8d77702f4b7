import { gatherRows } from './gather-rows.ts';
import type { Values } from './vectors.ts';

/**
 * Selects each token's row of the embedding table.
 * @param table [vocab, width], dequantized
 * @returns [tokens.length, width]
 */
export function embed(tokens: ArrayLike<number>, table: Values, width: number): Float64Array {
  return gatherRows(table, tokens, width);
}

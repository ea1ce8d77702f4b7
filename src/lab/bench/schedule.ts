import type { Arm } from './port.ts';
import { type Random, shuffled } from '../../util/random.ts';

/** One measurement that is timed in every arm. */
export type Cell =
  | { readonly kind: 'prefill'; readonly tokens: number }
  | { readonly kind: 'decode'; readonly context: number };

/** Role of a sample. `control` is a second run of the baseline. */
export type SampleRole = 'baseline' | 'bound' | 'control';

export const armOf = (role: SampleRole): Arm => (role === 'bound' ? 'bound' : 'baseline');

const orders: readonly (readonly SampleRole[])[] = [
  ['baseline', 'bound', 'control'],
  ['baseline', 'control', 'bound'],
  ['bound', 'baseline', 'control'],
  ['bound', 'control', 'baseline'],
  ['control', 'baseline', 'bound'],
  ['control', 'bound', 'baseline'],
];

/**
 * Order of the samples in each round: cells in random order, and within a cell its three roles in random order. In six
 * rounds, each order of the roles occurs once, so that no role is first more often than another.
 */
export class Schedule {
  readonly #cellOrders: { readonly cell: number; remaining: (readonly SampleRole[])[] }[];
  readonly #random: Random;

  constructor(cells: number, random: Random) {
    this.#cellOrders = Array.from({ length: cells }, (_, cell) => ({ cell, remaining: [] }));
    this.#random = random;
  }

  /** @returns the samples of one round; `cell` is an index */
  round(): { readonly cell: number; readonly role: SampleRole }[] {
    return shuffled(this.#cellOrders, this.#random).flatMap((cellOrder) => {
      if (cellOrder.remaining.length === 0) cellOrder.remaining = shuffled(orders, this.#random);
      const order = cellOrder.remaining.pop() ?? [];
      return order.map((role) => ({ cell: cellOrder.cell, role }));
    });
  }
}

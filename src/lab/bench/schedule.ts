import type { Arm } from './port.ts';
import { type Random, shuffled } from './random.ts';

/** One thing that is timed, with every arm. */
export type Cell =
  | { readonly kind: 'prefill'; readonly tokens: number }
  | { readonly kind: 'decode'; readonly context: number };

/** What a sample stands for. */
export type Role = 'baseline' | 'bound' | 'control';

export const armOf = (role: Role): Arm => (role === 'bound' ? 'bound' : 'baseline');

const orders: readonly (readonly Role[])[] = [
  ['baseline', 'bound', 'control'],
  ['baseline', 'control', 'bound'],
  ['bound', 'baseline', 'control'],
  ['bound', 'control', 'baseline'],
  ['control', 'baseline', 'bound'],
  ['control', 'bound', 'baseline'],
];

/**
 * Order of the samples, round after round: cells in random order, the three roles of a cell next to one another in
 * random order. Of six rounds each order of the roles comes once, so that no role is first more often than another.
 */
export class Schedule {
  readonly #decks: { readonly cell: number; left: (readonly Role[])[] }[];
  readonly #random: Random;

  constructor(cells: number, random: Random) {
    this.#decks = Array.from({ length: cells }, (_, cell) => ({ cell, left: [] }));
    this.#random = random;
  }

  /** @returns the samples of one round; `cell` is an index */
  round(): { readonly cell: number; readonly role: Role }[] {
    return shuffled(this.#decks, this.#random).flatMap((deck) => {
      if (deck.left.length === 0) deck.left = shuffled(orders, this.#random);
      const order = deck.left.pop() ?? [];
      return order.map((role) => ({ cell: deck.cell, role }));
    });
  }
}

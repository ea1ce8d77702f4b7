import type { Turn } from './answer.ts';

/** A conversation: a tree of turns, of which one path is shown. */
export interface Conversation {
  readonly id: string;
  readonly title: string;
  /** System prompt. */
  readonly system: string;
  /** All turns, also those of other versions; a turn comes after its parent. */
  readonly turns: readonly Turn[];
  /** The shown version of the turns after a parent; the newest one where none is chosen. */
  readonly chosen: Readonly<Record<number, number>>;
  /** Time in ms. */
  readonly updatedAt: number;
}

/** The turns that are shown, which are also those that the model gets. */
export function pathOf({ turns, chosen }: Pick<Conversation, 'turns' | 'chosen'>): Turn[] {
  const path: Turn[] = [];
  for (let parent = 0; ; ) {
    const versions = turns.filter((turn) => turn.parent === parent);
    const shown = versions.find(({ id }) => id === chosen[parent]) ?? versions.at(-1);
    if (!shown) return path;
    path.push(shown);
    parent = shown.id;
  }
}

/** The path up to a turn, without it. */
export function pathBefore({ turns }: Pick<Conversation, 'turns'>, turn: Turn): Turn[] {
  const path: Turn[] = [];
  for (let { parent } = turn; parent !== 0; ) {
    const before = turns.find(({ id }) => id === parent);
    if (!before) break;
    path.unshift(before);
    ({ parent } = before);
  }
  return path;
}

/** Versions of a turn, oldest first. */
export const versionsOf = ({ turns }: Pick<Conversation, 'turns'>, { parent }: Turn): Turn[] =>
  turns.filter((turn) => turn.parent === parent);

export const nextTurnId = ({ turns }: Pick<Conversation, 'turns'>): number =>
  Math.max(0, ...turns.map(({ id }) => id)) + 1;

/** Longest title, in characters, that is made from a message. */
const maxTitle = 60;

/** The title of a conversation that begins with a message. */
export function titleOf(message: string): string {
  const line = message.trim().replaceAll(/\s+/g, ' ');
  return line.length <= maxTitle ? line : `${line.slice(0, maxTitle - 1).trimEnd()}…`;
}

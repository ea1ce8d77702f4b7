export interface TurnPosition {
  /** Unique in the conversation. */
  readonly id: number;
  /** The turn before; 0 at the beginning. Turns with the same parent are versions of each other. */
  readonly parent: number;
}

/** A message of the user. */
export interface Message extends TurnPosition {
  readonly role: 'user';
  readonly text: string;
}

/** An answer of a model. */
export interface Answer extends TurnPosition {
  readonly role: 'assistant';
  readonly text: string;
  readonly state: 'waiting' | 'writing' | 'done' | 'stopped' | 'failed';
  readonly finishReason?: string;
}

/** A conversation: a tree of turns, of which one path is shown. */
export interface Conversation<Turn extends TurnPosition> {
  readonly id: string;
  readonly title: string;
  /** System prompt. */
  readonly system: string;
  /** All turns, also those of other versions; a turn comes after its parent. */
  readonly turns: readonly Turn[];
  /** Ids of turns that were removed, so that another tab does not store them again. */
  readonly removed?: readonly number[];
  /** The shown version of the turns after a parent; the newest one where none is chosen. */
  readonly chosen: Readonly<Record<number, number>>;
  /** Time in ms. */
  readonly updatedAt: number;
}

/** The turns that are shown, which are also those that the model gets. */
export function pathOf<Turn extends TurnPosition>({
  turns,
  chosen,
}: Pick<Conversation<Turn>, 'turns' | 'chosen'>): Turn[] {
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
export function pathBefore<Turn extends TurnPosition>(
  { turns }: Pick<Conversation<Turn>, 'turns'>,
  turn: TurnPosition,
): Turn[] {
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
export const versionsOf = <Turn extends TurnPosition>(
  { turns }: Pick<Conversation<Turn>, 'turns'>,
  { parent }: TurnPosition,
): Turn[] => turns.filter((turn) => turn.parent === parent);

export const isAnswering = (turn: Message | Answer | undefined): boolean =>
  turn?.role === 'assistant' && (turn.state === 'waiting' || turn.state === 'writing');

/** Longest title, in characters, that is made from a message. */
const maxTitle = 60;

/** The title of a conversation that begins with a message. */
export function titleOf(message: string): string {
  const line = message.trim().replaceAll(/\s+/g, ' ');
  return line.length <= maxTitle ? line : `${line.slice(0, maxTitle - 1).trimEnd()}…`;
}

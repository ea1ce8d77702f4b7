import { Button } from '../ui/index.tsx';
import css from './turns.module.css';
import type { TurnPosition } from './tree.ts';

/** Moves between the versions of a message or an answer; nothing where there is only one. */
export function Versions<Turn extends TurnPosition>(props: {
  versions: readonly Turn[];
  shown: TurnPosition;
  /** What has versions, for the names of the buttons. */
  what: string;
  choose: (turn: Turn) => void;
}) {
  const { versions, shown, what, choose } = props;
  if (versions.length < 2) return null;
  const at = versions.findIndex(({ id }) => id === shown.id);
  const step = (by: -1 | 1, name: string, sign: string) => {
    const turn = versions[at + by];
    return (
      <Button
        className={css['action']}
        aria-label={`${name} version of the ${what}`}
        aria-disabled={turn === undefined}
        onClick={() => turn && choose(turn)}
      >
        {sign}
      </Button>
    );
  };
  return (
    <span className={css['versions']}>
      {step(-1, 'Previous', '‹')}
      <span>
        {at + 1}/{versions.length}
      </span>
      {step(1, 'Next', '›')}
    </span>
  );
}

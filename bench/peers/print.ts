import { digits, table } from '../table.ts';
import type { PeerFigure } from './compare.ts';

/** Peer figures as a table. `others`: cores that other processes kept busy. */
export function peerText(figures: readonly PeerFigure[]): string {
  const names = [...new Set(figures.map((one) => one.peerName))].join(', ');
  return `${table(
    ['figure', 'lathe', 'peer', 'ratio', 'goal', 'others'],
    figures.map((one) => [
      one.figure,
      digits(one.ours),
      digits(one.peer),
      `${one.ratio.toFixed(2)}x`,
      goalText(one),
      digits(one.othersCores),
    ]),
  )}\npeers: ${names}`;
}

const goalText = ({ ratio, goal }: PeerFigure): string => {
  if (goal === null) return 'none';
  return `${ratio >= goal ? 'met' : 'missed'} (${goal})`;
};

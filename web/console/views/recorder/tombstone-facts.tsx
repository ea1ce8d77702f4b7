import { formatBytes, formatNumber, formatTime } from '../../parts/format.ts';
import { Facts } from '../../parts/index.tsx';
import type { Tombstone } from './types.ts';

const span = (from: string | null, to: string | null): string =>
  from === null || to === null ? 'nothing was there' : `${formatTime(from)} to ${formatTime(to)}`;

/** What is left of a history that was removed. */
export const TombstoneFacts = ({ tombstone }: { tombstone: Tombstone }) => (
  <Facts
    facts={[
      ['Tombstone', <code key="id">{tombstone.id}</code>],
      ['Removed', `${formatNumber(tombstone.events)} events, ${formatBytes(tombstone.bytes)}`],
      ['From', span(tombstone.from, tombstone.to)],
      ['At', `${formatTime(tombstone.at)}, by ${tombstone.by}`],
      ['Verified', tombstone.verified ? 'yes: the host read back and found nothing' : 'no'],
    ]}
  />
);

import { CopyValue } from '../../../ui/copy.tsx';
import { formatBytes, formatNumber, formatTime } from '../../../ui/format.ts';
import { Facts } from '../../../ui/index.tsx';
import type { Tombstone } from './types.ts';

const formatPeriod = (from: string | null, to: string | null): string =>
  from === null || to === null ? 'no events' : `${formatTime(from)} to ${formatTime(to)}`;

/** Details of a purged history. */
export const TombstoneFacts = ({ tombstone }: { tombstone: Tombstone }) => (
  <Facts
    facts={[
      ['Tombstone', <CopyValue key="id" value={tombstone.id} label="the tombstone's id" />],
      ['Deleted', `${formatNumber(tombstone.events)} events, ${formatBytes(tombstone.bytes)}`],
      ['Period', formatPeriod(tombstone.from, tombstone.to)],
      ['At', `${formatTime(tombstone.at)}, by ${tombstone.by}`],
      ['Verified', tombstone.verified ? 'yes: no data was found after deletion' : 'no'],
    ]}
  />
);

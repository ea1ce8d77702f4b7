import type { ReactNode } from 'react';
import { Badge, LiveBadge } from './index.tsx';
import { isOpenState, stateLabel, stateTone } from './states.ts';

/**
 * A state, by the word and the tone that all views have for it; unknown while the host does not answer.
 * @param props.state as on the wire
 * @param props.isRecorded it is a fact of the past, such as the outcome of a request: it stays known, unless it is still open
 * @param props.children further text within the badge
 */
export function StateBadge(props: { state: string; isRecorded?: boolean; children?: ReactNode }) {
  const { state, isRecorded = false, children } = props;
  const Kind = isRecorded && !isOpenState(state) ? Badge : LiveBadge;
  return (
    <Kind tone={stateTone(state)}>
      {stateLabel(state)}
      {children}
    </Kind>
  );
}

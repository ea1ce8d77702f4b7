import { Badge } from '../../../../ui/index.tsx';
import { isVerdict, verdictLabels, verdictTones } from './verdict-text.ts';

/** @param props.verdict as on the wire; one of another version is shown unchanged */
export const VerdictBadge = ({ verdict }: { verdict: string }) =>
  isVerdict(verdict) ? (
    <Badge tone={verdictTones[verdict]}>{verdictLabels[verdict]}</Badge>
  ) : (
    <Badge>{verdict}</Badge>
  );

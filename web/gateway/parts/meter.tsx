import css from '../gateway.module.css';
import { formatExactMoney, formatMoney } from '../format.ts';

const warnAt = 0.8;

/** How much of an amount is used, in words and as a bar. */
export function SpendMeter({ used, limit }: { used: number; limit: number }) {
  const part = limit === 0 ? 1 : used / limit;
  const tone = part >= 1 ? 'bad' : part >= warnAt ? 'warn' : undefined;
  return (
    <span className={css['meter']}>
      <span
        className={css['nowrap']}
        title={`${formatExactMoney(used)} of ${formatExactMoney(limit)}`}
      >{`${formatMoney(used)} of ${formatMoney(limit)} (${formatPart(part)})`}</span>
      <span className={css['track']} aria-hidden="true">
        <span
          className={css['fill']}
          data-tone={tone}
          style={{ width: `${Math.min(100, Math.max(0, part * 100))}%` }}
        />
      </span>
    </span>
  );
}

/** `0.4 %`, `82 %`. */
const formatPart = (part: number): string => {
  const percent = part * 100;
  if (percent > 0 && percent < 0.1) return 'less than 0.1 %';
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : String(Math.floor(percent))} %`;
};

import { formatMs } from '../../../ui/format.ts';
import { formatProbability, probability, type Token } from './answer.ts';
import css from './chat.module.css';
import { readableToken } from './readable-token.ts';

/** Details of a token: probability, arrival time and alternatives. */
export function TokenDetails(props: {
  token: Token;
  number: number;
  count: number;
  /** Arrival time of the previous token. */
  previousArrivalMs: number | undefined;
}) {
  const { token, number, count, previousArrivalMs } = props;
  const isInTop = token.top.some((one) => isSame(one, token));
  const alternatives = isInTop ? token.top : [...token.top, token];
  return (
    <>
      <p>
        Token {number} of {count}: <code className={css['tokenName']}>{readableToken(token)}</code>{' '}
        <strong>{formatProbability(probability(token))}</strong>, {formatMs(token.arrivalMs)} after the
        request
        {previousArrivalMs !== undefined &&
          (token.arrivalMs - previousArrivalMs < 1
            ? ', together with the previous token'
            : `, ${formatMs(token.arrivalMs - previousArrivalMs)} after the previous token`)}
      </p>
      {token.top.length > 0 && (
        <ol className={css['alternatives']} aria-label="Most likely tokens at this position">
          {alternatives.map((one) => (
            <li
              key={`${one.token} ${one.bytes.join(' ')}`}
              {...(isSame(one, token) ? { 'aria-current': true as const } : {})}
            >
              <code className={css['tokenName']}>{readableToken(one)}</code>
              <span className={css['bar']} aria-hidden="true">
                <span style={{ width: `${probability(one) * 100}%` }} />
              </span>
              <span className={css['share']}>{formatProbability(probability(one))}</span>
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

const isSame = (a: Pick<Token, 'token' | 'bytes'>, b: Pick<Token, 'token' | 'bytes'>): boolean =>
  a.token === b.token && a.bytes.join() === b.bytes.join();

import { formatMs } from '../../parts/format.ts';
import { formatShare, probability, type Token } from './answer.ts';
import css from './chat.module.css';
import { tokenName } from './token-name.ts';

/** Details of a token: probability, arrival time and alternatives. */
export function TokenFacts(props: {
  token: Token;
  number: number;
  count: number;
  /** Arrival time of the previous token. */
  after: number | undefined;
}) {
  const { token, number, count, after } = props;
  const isAmongTop = token.top.some((one) => isSame(one, token));
  const listed = isAmongTop ? token.top : [...token.top, token];
  return (
    <>
      <p>
        Token {number} of {count}: <code className={css['tokenName']}>{tokenName(token)}</code>{' '}
        <strong>{formatShare(probability(token))}</strong>, {formatMs(token.at)} after the request
        {after !== undefined &&
          (token.at - after < 1
            ? ', together with the previous token'
            : `, ${formatMs(token.at - after)} after the previous token`)}
      </p>
      {token.top.length > 0 && (
        <ol className={css['alternatives']} aria-label="Most likely tokens at this position">
          {listed.map((one) => (
            <li
              key={`${one.token} ${one.bytes.join(' ')}`}
              {...(isSame(one, token) ? { 'aria-current': true as const } : {})}
            >
              <code className={css['tokenName']}>{tokenName(one)}</code>
              <span className={css['bar']} aria-hidden="true">
                <span style={{ width: `${probability(one) * 100}%` }} />
              </span>
              <span className={css['share']}>{formatShare(probability(one))}</span>
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

const isSame = (a: Pick<Token, 'token' | 'bytes'>, b: Pick<Token, 'token' | 'bytes'>): boolean =>
  a.token === b.token && a.bytes.join() === b.bytes.join();

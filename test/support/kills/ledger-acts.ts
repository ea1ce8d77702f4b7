/**
 * A gateway's ledger at work until it is killed: `ledger-acts.ts URL ACCOUNT KEY`. Writes `open`, `held <request>` for a
 * reservation that was acknowledged and `paid <request> <charged>` for a settlement.
 */
import { writeSync } from 'node:fs';
import { ledgerOn, newRequest, reservation, settlement } from '../ledger.ts';

const [url = '', accountId = '', keyId = ''] = process.argv.slice(2);
const say = (line: string) => writeSync(1, `${line}\n`);
const { ledger } = await ledgerOn(url);
say('open');

async function loop(which: number): Promise<void> {
  for (let count = 0; ; count++) {
    const requestId = newRequest();
    const amount = BigInt(100 + which);
    const tag = `user ${count % 4}`;
    const { outcome } = await ledger.reserve(reservation({ accountId, keyId }, amount, { requestId, tag }));
    if (outcome !== 'reserved') throw new Error(outcome);
    say(`held ${requestId}`);
    if (count % 3 === 0) await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
    const { charged } = await ledger.settle(requestId, settlement(BigInt(count % 120)));
    say(`paid ${requestId} ${charged}`);
  }
}
await Promise.all(Array.from({ length: 12 }, (_, which) => loop(which)));

import { type ChildProcess, spawn } from 'node:child_process';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { describeStores } from '../support/databases.ts';
import { killCount, killsOn, linesOf, pause, randomFrom, report } from '../support/kills/process.ts';
import { ledgerOn, type OpenLedger, payerOf } from '../support/ledger.ts';
import { rounds } from '../support/tier.ts';
import { supportProgram } from '../support/host.ts';

const program = supportProgram('kills/ledger-acts');

describeStores('a gateway that is killed while it reserves and settles', (url, kind) => {
  const kills = killCount(kind === 'sqlite' ? rounds(5, 2) : rounds(3, 2));
  it.runIf(killsOn(kind))(`${kills} times`, { timeout: 600_000 + kills * 8_000 }, async () => {
    const at = await url();
    const watcher = await ledgerOn(at);
    const credit = 10n ** 12n;
    const payer = await payerOf(watcher.ledger, { credit, cap: credit });
    const { id: parent } = await watcher.ledger.createAccount('team', {});
    await watcher.ledger.updateAccount(payer.accountId, { parent });
    await watcher.ledger.setBudget({ owner: { kind: 'account', id: parent }, period: '30d', amount: credit });
    await watcher.ledger.setBudget({
      owner: { kind: 'key', id: payer.keyId },
      period: '30d',
      amount: credit,
    });
    const seed = Date.now() % 1_000_000;
    const random = randomFrom(seed);
    const held = new Set<string>();
    const paid = new Map<string, bigint>();
    let left = 0;
    for (let round = 0; round < kills; round++) {
      const about = `seed ${seed}, round ${round}`;
      // Of two processes, one is killed: the other one goes on to commit and keeps its holds.
      const children = Array.from({ length: round % 2 === 0 ? 1 : 2 }, () =>
        spawn(process.execPath, [program, at, payer.accountId, payer.keyId], {
          stdio: ['ignore', 'pipe', 'pipe'],
        }),
      );
      const outs = children.map((child: ChildProcess) => linesOf(child));
      for (const out of outs) expect(await out.sees(/^open$/), `${about}: ${out.stderr()}`).toBe(true);
      // In the first round something is always paid, however slow the machine is.
      if (round === 0 || random(3) > 0) await outs[0]?.sees(/^paid/);
      await pause(random(200));
      for (const [index, child] of children.entries()) {
        child.kill('SIGKILL');
        await outs[index]?.ended;
        if (index === 0 && children.length > 1) await expectWhole(watcher, about);
      }
      for (const out of outs) {
        expect(out.stderr(), about).toBe('');
        for (const line of out.lines) {
          const [what, id = '', amount = ''] = line.split(' ');
          if (what === 'held') held.add(id);
          if (what === 'paid') paid.set(id, BigInt(amount));
        }
      }
      await expectWhole(watcher, about);
      // Where the database is a file of this machine, their end is seen at once.
      if (kind === 'postgres') await letBeatsStop(watcher);
      left += (await watcher.ledger.recoverOrphanedHolds()).settled;
      await expectSettled(watcher, { held, paid }, about);
    }
    const rows = await watcher.store.read((db) =>
      db.selectFrom('gateway_requests').select('charged').execute(),
    );
    const { remaining } = await watcher.ledger.balance(payer.accountId);
    const spent = rows.reduce((sum, { charged }) => sum + charged, 0n);
    expect(remaining).toBe(credit - spent);
    for (const budget of await watcher.ledger.budgets()) expect(budget).toMatchObject({ spent, held: 0n });
    expect(paid.size).toBeGreaterThan(0);
    report({ kind, kills, held: held.size, paid: paid.size, left, seed });
    await watcher.close();
  });
});

const letBeatsStop = async ({ store }: OpenLedger) =>
  await store.transaction((tx) =>
    tx
      .updateTable('gateway_replicas')
      .set({ beat_at: sql`beat_at - 31000` })
      .where('id', '<>', store.replicaId)
      .execute(),
  );

async function expectWhole({ ledger }: OpenLedger, about: string): Promise<void> {
  expect((await ledger.audit()).faults, about).toEqual([]);
}

/** Every acknowledged settlement is stored as acknowledged; every acknowledged hold was settled and paid. */
async function expectSettled(
  opened: OpenLedger,
  { held, paid }: { held: ReadonlySet<string>; paid: ReadonlyMap<string, bigint> },
  about: string,
): Promise<void> {
  const { faults, openHolds } = await opened.ledger.audit();
  expect(faults, about).toEqual([]);
  expect(openHolds, about).toBe(0);
  const rows = await opened.store.read((db) =>
    db.selectFrom('gateway_requests').select(['id', 'ended', 'charged', 'estimate']).execute(),
  );
  const found = new Map(rows.map((row) => [row.id, row]));
  for (const [id, charged] of paid)
    expect(found.get(id), `${id} was settled (${about})`).toMatchObject({ ended: 'settled', charged });
  for (const id of held) expect(found.has(id), `${id} was reserved (${about})`).toBe(true);
  for (const { id, ended, charged, estimate } of rows)
    if (ended === 'crash') expect(charged, `${id} (${about})`).toBe(estimate);
}

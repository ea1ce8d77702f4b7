import { api, unwrap } from '../../../api/client.ts';
import type { components } from '../../../api/schema.d.ts';
import { checkReceipt, type Finding, checkLink, type ReceiptKey } from './check-receipt.ts';

type Receipt = components['schemas']['WorkReceipt'];

export interface ChainLink {
  readonly receipt: Receipt;
  readonly findings: readonly Finding[];
}

/** Maximum number of parallel requests. */
const maxParallel = 6;

/** Ids of the newest receipts of a host, newest first, from the observe plane. */
async function fetchNewestIds(endpointId: string, count: number): Promise<string[]> {
  const { rows } = await unwrap(
    api.POST('/observe/v1/query', {
      body: {
        surface: 'receipts',
        select: ['id', 'seq'],
        where: [{ column: 'endpoint_id', op: 'eq', value: endpointId }],
        order_by: [{ column: 'seq', direction: 'desc' }],
        limit: count,
      },
    }),
  );
  return rows.map(([id]) => String(id));
}

/** Fetches the newest receipts and verifies each one and its link to the previous one. */
export async function checkChain(options: {
  readonly endpointId: string;
  readonly key: ReceiptKey | undefined;
  readonly count: number;
  readonly signal: AbortSignal;
}): Promise<ChainLink[]> {
  const { endpointId, key, count, signal } = options;
  const ids = await fetchNewestIds(endpointId, count);
  const receipts: Receipt[] = [];
  for (let at = 0; at < ids.length; at += maxParallel) {
    const requests = ids
      .slice(at, at + maxParallel)
      .map((id) => unwrap(api.GET('/agent/v1/sessions/{id}/receipt', { params: { path: { id } }, signal })));
    receipts.push(...(await Promise.all(requests)));
  }
  return Promise.all(
    receipts.map(async (receipt, index) => ({
      receipt,
      findings: [...(await checkReceipt(receipt, key)), checkLink(receipt, receipts[index + 1])],
    })),
  );
}

/** The oldest link with a failed check; undefined when there is none. */
export const findInvalidLink = (links: readonly ChainLink[]): ChainLink | undefined =>
  links.findLast(({ findings }) => findings.some(({ ok }) => ok === false));

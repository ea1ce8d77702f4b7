import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Violation } from './error.ts';
import type { Caller } from './route.ts';
import { invalidBodyError } from './violations.ts';

/** How a completion request enters the queue of the model. */
export interface Admission {
  /** Who it is from: clients share the model. */
  readonly client: string;
  readonly priority: 'interactive' | 'batch';
  /** Time in ms within which it must be answered; undefined where the client set none. */
  readonly timeoutMs?: number | undefined;
}

/** The admission of the request that is being handled; set when its headers are read. */
export interface AdmissionSlot {
  admission?: Admission;
}

const slots = new AsyncLocalStorage<AdmissionSlot>();

/**
 * Handles a request. Whatever runs for it, up to the last byte of its answer, finds its admission with
 * `currentAdmission`.
 */
export const withAdmission = <Value>(slot: AdmissionSlot, handle: () => Value): Value =>
  slots.run(slot, handle);

/** Undefined outside of a completion request, as in the background work of agents. */
export const currentAdmission = (): Admission | undefined => slots.getStore()?.admission;

const maxTimeoutSeconds = 86_400;

/** The headers of completion requests, as documented. */
export const admissionHeaders = {
  'x-request-priority': z
    .enum(['interactive', 'batch'])
    .describe('`batch`: runs only while no interactive request waits. Default: `interactive`.'),
  'x-request-timeout': z
    .number()
    .positive()
    .max(maxTimeoutSeconds)
    .describe('Seconds within which the request must be answered.'),
};

/** Reads the admission of a request from its headers and its caller. @throws HttpError 400 with every violation */
export function readAdmission(
  caller: Pick<Caller, 'by'>,
  { headers, remoteAddress }: { readonly headers: Headers; readonly remoteAddress: string | undefined },
): Admission {
  const violations: Violation[] = [];
  const priority = headers.get('x-request-priority') ?? 'interactive';
  if (priority !== 'interactive' && priority !== 'batch')
    violations.push({
      path: 'x-request-priority',
      message: `expected interactive or batch, got '${priority.slice(0, 40)}'`,
    });
  const timeout = headers.get('x-request-timeout');
  const seconds = timeout === null ? undefined : Number(timeout);
  const isNumber = timeout === null || /^\d+(?:\.\d+)?$/.test(timeout);
  if (!isNumber || seconds === 0 || (seconds ?? 0) > maxTimeoutSeconds)
    violations.push({
      path: 'x-request-timeout',
      message: `expected seconds, more than 0 and at most ${maxTimeoutSeconds}, got '${(timeout ?? '').slice(0, 40)}'`,
    });
  if (violations.length > 0) throw invalidBodyError(violations);
  return {
    client: clientOf(caller, headers, remoteAddress),
    priority: priority === 'batch' ? 'batch' : 'interactive',
    timeoutMs: seconds === undefined ? undefined : seconds * 1000,
  };
}

/**
 * The client of a request: a peer by its token; on loopback, where keys are not verified, a program by the key that it
 * sends; else the address.
 */
function clientOf({ by }: Pick<Caller, 'by'>, headers: Headers, remoteAddress: string | undefined): string {
  if (by.startsWith('peer:')) return by;
  const key =
    /^Bearer +(\S+)/i.exec(headers.get('authorization') ?? '')?.[1] ?? headers.get('x-api-key') ?? undefined;
  if (by === 'local' && key !== undefined)
    return `key:${createHash('sha256').update(key).digest('hex').slice(0, 16)}`;
  return `address:${(remoteAddress ?? '').replace(/^::ffff:/i, '')}`;
}

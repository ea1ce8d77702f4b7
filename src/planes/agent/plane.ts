import { AgentError, type AgentErrorKind } from '../../agent/errors.ts';
import { StoreError } from '../../store/index.ts';
import { hostError } from '../error-schema.ts';
import { hostEnvelope, HttpError } from '../../http/error.ts';
import type { Plane, Route } from '../../http/route.ts';

const statuses: Readonly<Record<AgentErrorKind, number>> = {
  invalid: 400,
  unauthorized: 401,
  not_found: 404,
  conflict: 409,
  gone: 410,
  too_many: 429,
  unavailable: 503,
};

/** Converts errors of the agent plane and its store to HTTP errors; returns any other error unchanged. */
export function toHttpError(error: unknown): unknown {
  if (error instanceof AgentError) {
    const { kind, code, message, faults } = error;
    const canRetry = kind === 'too_many' || kind === 'unavailable';
    return new HttpError(statuses[kind], code, message, {
      ...(faults ? { violations: faults } : {}),
      ...(canRetry ? { headers: { 'retry-after': '5' } } : {}),
    });
  }
  if (!(error instanceof StoreError)) return error;
  if (error.code === 'storage_full') {
    const message = `Nothing was changed, because ${error.message}. Make room, and send it again.`;
    return new HttpError(503, error.code, message, { headers: { 'retry-after': '30' } });
  }
  const outcome =
    error.code === 'storage_unsure' ? 'It is not known whether this was done' : 'Nothing was changed';
  return new HttpError(500, error.code, `${outcome}, because ${error.message}.`);
}

const storeErrorResponse = {
  description:
    'Nothing was done: the disk is full, or the host is starting. `Retry-After` says when to retry.',
  content: { 'application/json': hostError },
};

/** Converts the errors of the agent plane to HTTP errors in the given routes. */
export const withHttpErrors = (routes: readonly Route[]): Route[] =>
  routes.map((route) => {
    const { beforeBody: before } = route;
    return {
      ...route,
      responses: { 503: storeErrorResponse, ...route.responses },
      ...(before ? { beforeBody: (request) => convertErrors(() => before(request)) } : {}),
      handle: (request) => convertErrors(() => route.handle(request)),
    };
  });

async function convertErrors<Value>(action: () => Value | Promise<Value>): Promise<Value> {
  try {
    return await action();
  } catch (error) {
    throw toHttpError(error);
  }
}

export function createAgentPlane(routes: readonly Route[]): Plane {
  return {
    name: 'agent',
    summary: 'Agents, tasks, tools, pending changes, workflows, sessions and receipts.',
    prefixes: ['/agent'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    routes: withHttpErrors(routes),
  };
}

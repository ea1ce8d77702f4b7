import { RecorderError, type RecorderErrorKind } from '../../recorder/errors.ts';
import { HttpError } from '../../http/error.ts';
import type { Route } from '../../http/route.ts';

const statuses: Readonly<Record<RecorderErrorKind, number>> = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  too_many: 429,
  unavailable: 503,
};
const retryAfter: Partial<Record<RecorderErrorKind, string>> = { too_many: '1', unavailable: '5' };

/** Converts the errors of the recorder to HTTP errors in the given routes. */
export const withHttpErrors = (routes: readonly Route[]): Route[] =>
  routes.map((route) => {
    const { beforeBody: before } = route;
    return {
      ...route,
      ...(before ? { beforeBody: (request) => withRecorderHttpErrors(() => before(request)) } : {}),
      handle: (request) => withRecorderHttpErrors(() => route.handle(request)),
    };
  });

export async function withRecorderHttpErrors<Value>(action: () => Value | Promise<Value>): Promise<Value> {
  try {
    return await action();
  } catch (error) {
    throw toHttpError(error);
  }
}

/** Returns any other error unchanged. */
function toHttpError(error: unknown): unknown {
  if (!(error instanceof RecorderError)) return error;
  const { kind, code } = error;
  // `events[0].at` becomes `events.0.at`, as in violations of other bodies.
  const violations = error.violations.map(({ path, message }) => ({
    path: path.replaceAll(/\[(\d+)\]/g, '.$1'),
    message,
  }));
  const violationText = violations.map(({ path, message }) => `${path}: ${message}`).join('; ');
  const seconds = retryAfter[kind];
  return new HttpError(
    statuses[kind],
    code,
    violationText === '' ? error.message : `${error.message} ${violationText}.`,
    {
      ...(violations.length > 0 ? { violations } : {}),
      ...(seconds === undefined ? {} : { headers: { 'retry-after': seconds } }),
    },
  );
}

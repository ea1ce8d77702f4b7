import { systemCode } from '../../util/system-code.ts';
import { WireError } from '../../wires/core/error.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';

/** Creates the errors of a provider below the level of its wire, such as timeouts. They never hold a URL or a secret. */
export class ProviderFaults {
  readonly #name: string;
  readonly #noticed: (failure: UpstreamFailure) => UpstreamFailure;

  /**
   * @param name the provider id
   * @param noticed called with each failure that counts against the provider's health; may replace the failure
   */
  constructor(name: string, noticed = (one: UpstreamFailure) => one) {
    this.#name = name;
    this.#noticed = noticed;
  }

  unreachable(cause: unknown): UpstreamFailure {
    const late = systemCode(cause) === 'UND_ERR_CONNECT_TIMEOUT';
    return this.#unwell(
      late ? 'did not accept a connection in time' : `could not be reached${shown(cause)}`,
      cause,
      late,
    );
  }

  brokeOff(cause?: unknown): UpstreamFailure {
    return this.#unwell(`broke off in the middle of its answer${shown(cause)}`, cause);
  }

  /** One host of a pool refused the request. */
  refused(status: number): UpstreamFailure {
    return this.#unwell(`answered with status ${status}`);
  }

  silent(ms: number): UpstreamFailure {
    return this.#unwell(`sent nothing for ${seconds(ms)}`, undefined, true);
  }

  nonsense(what: string, cause?: unknown): UpstreamFailure {
    return this.#unwell(`sent an answer that cannot be read: ${what}`, cause);
  }

  /** The gateway itself closed the stream. */
  cut(): UpstreamFailure {
    return failure(`The answer of the provider '${this.#name}' was not read to its end.`);
  }

  /** The time limit of an answer. A long answer does not count against the provider's health. */
  tooLong(ms: number): UpstreamFailure {
    return failure(
      `The provider '${this.#name}' did not finish its answer within ${seconds(ms)}. ` +
        'Ask for a shorter answer, or stream it.',
      { again: true, late: true },
    );
  }

  /** The configuration of the provider is unusable. */
  unusable(why: string, cause?: unknown): UpstreamFailure {
    return failure(`The provider '${this.#name}' cannot be used: ${why}`, { cause });
  }

  /** The breaker of one of its models is open. */
  resting(model: string, ms: number): UpstreamFailure {
    const seconds = Math.max(1, Math.ceil(ms / 1000));
    const message =
      `Most recent requests to ${model} of the provider '${this.#name}' failed, so it gets no requests for now. ` +
      `Try again in ${seconds} seconds.`;
    const error = new WireError(503, 'upstream_error', message, {
      code: 'upstream_unavailable',
      headers: { 'retry-after': String(seconds) },
    });
    return new UpstreamFailure({ error, again: true, unwell: false });
  }

  allDown(): UpstreamFailure {
    return failure(`None of the hosts of the provider '${this.#name}' is up. Try again later.`, {
      again: true,
      unwell: true,
    });
  }

  #unwell(what: string, cause?: unknown, late = false): UpstreamFailure {
    const message = `The provider '${this.#name}' ${what}. Try again later.`;
    return this.#noticed(failure(message, { cause, late, again: true, unwell: true }));
  }
}

/** The same failure for one host of a pool: the other hosts count as healthy and can be tried at once. */
export const ofOneHost = ({ error, again, cause }: UpstreamFailure): UpstreamFailure =>
  new UpstreamFailure({ error, again, unwell: false, retryAfterMs: 0 }, { cause });

function failure(
  message: string,
  {
    late = false,
    again = false,
    unwell = false,
    cause,
  }: {
    readonly late?: boolean;
    readonly again?: boolean;
    readonly unwell?: boolean;
    readonly cause?: unknown;
  } = {},
): UpstreamFailure {
  const error = new WireError(late ? 504 : 502, 'upstream_error', message, {
    code: late ? 'upstream_timeout' : 'upstream_failed',
  });
  return new UpstreamFailure({ error, again, unwell }, { cause });
}

const seconds = (ms: number): string => `${ms / 1000} seconds`;

/** The system's error code only, because its messages contain addresses. */
function shown(error: unknown): string {
  const code = systemCode(error);
  return code === undefined ? '' : ` (${code.replace(/^UND_ERR_/, '').toLowerCase()})`;
}

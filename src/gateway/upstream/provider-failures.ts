import { systemCode } from '../../util/system-code.ts';
import { WireError } from '../../wires/core/error.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';

/** What the 503 of a disabled model says, in seconds: nobody knows when it is enabled. */
const disabledRetrySecs = 60;

/** Creates the errors of a provider below the level of its wire, such as timeouts. They never hold a URL or a secret. */
export class ProviderFailures {
  readonly #name: string;
  readonly #onUnhealthy: (failure: UpstreamFailure) => UpstreamFailure;

  /**
   * @param name the provider id
   * @param noticed called with each failure that counts against the provider's health; may replace the failure
   */
  constructor(name: string, onUnhealthy = (one: UpstreamFailure) => one) {
    this.#name = name;
    this.#onUnhealthy = onUnhealthy;
  }

  unreachable(cause: unknown): UpstreamFailure {
    const isTimeout = systemCode(cause) === 'UND_ERR_CONNECT_TIMEOUT';
    return this.#unhealthyFailure(
      isTimeout ? 'did not accept a connection in time' : `could not be reached${codeSuffix(cause)}`,
      cause,
      isTimeout,
    );
  }

  connectionLost(cause?: unknown): UpstreamFailure {
    return this.#unhealthyFailure(`broke off in the middle of its answer${codeSuffix(cause)}`, cause);
  }

  /** One host of a pool refused the request. */
  hostRefused(status: number): UpstreamFailure {
    return this.#unhealthyFailure(`answered with status ${status}`);
  }

  idleTimeout(ms: number): UpstreamFailure {
    return this.#unhealthyFailure(`sent nothing for ${seconds(ms)}`, undefined, true);
  }

  unreadable(description: string, cause?: unknown): UpstreamFailure {
    return this.#unhealthyFailure(`sent an answer that cannot be read: ${description}`, cause);
  }

  /** The gateway itself closed the stream. */
  canceled(): UpstreamFailure {
    return failure(`The answer of the provider '${this.#name}' was not read to its end.`);
  }

  /** The time limit of an answer. A long answer does not count against the provider's health. */
  totalTimeout(ms: number): UpstreamFailure {
    return failure(
      `The provider '${this.#name}' did not finish its answer within ${seconds(ms)}. ` +
        'Ask for a shorter answer, or stream it.',
      { isRetryable: true, isTimeout: true },
    );
  }

  /** The configuration of the provider is unusable. */
  unusable(reason: string, cause?: unknown): UpstreamFailure {
    return failure(`The provider '${this.#name}' cannot be used: ${reason}`, { cause });
  }

  /** The breaker of one of its models is open. */
  breakerOpen(model: string, ms: number): UpstreamFailure {
    const seconds = Math.max(1, Math.ceil(ms / 1000));
    const message =
      `Most recent requests to ${model} of the provider '${this.#name}' failed, so it gets no requests for now. ` +
      `Try again in ${seconds} seconds.`;
    const error = new WireError(503, 'upstream_error', message, {
      code: 'upstream_unavailable',
      headers: { 'retry-after': String(seconds) },
    });
    return new UpstreamFailure({ error, isRetryable: true, isUnhealthy: false });
  }

  /** An operator disabled the model at the provider. */
  disabled(model: string): UpstreamFailure {
    const message = `The operator of this gateway has disabled ${model} of the provider '${this.#name}' for now. Use another model, or try again later.`;
    const error = new WireError(503, 'upstream_error', message, {
      code: 'upstream_unavailable',
      headers: { 'retry-after': String(disabledRetrySecs) },
    });
    return new UpstreamFailure({ error, isRetryable: true, isUnhealthy: false });
  }

  /** No deployment of a model has room within its own limits. */
  atLimit(model: string): UpstreamFailure {
    const message = `The deployments of ${model} have as many requests as their limits allow. Try again in a second.`;
    const error = new WireError(429, 'rate_limit_error', message, {
      code: 'rate_limit_exceeded',
      headers: { 'retry-after': '1' },
    });
    return new UpstreamFailure({ error, isRetryable: true, isUnhealthy: false });
  }

  allHostsDown(): UpstreamFailure {
    return failure(`None of the hosts of the provider '${this.#name}' is up. Try again later.`, {
      isRetryable: true,
      isUnhealthy: true,
    });
  }

  #unhealthyFailure(description: string, cause?: unknown, isTimeout = false): UpstreamFailure {
    const message = `The provider '${this.#name}' ${description}. Try again later.`;
    return this.#onUnhealthy(failure(message, { cause, isTimeout, isRetryable: true, isUnhealthy: true }));
  }
}

/** A failure of one host of a pool, whose other hosts count as healthy: a retry at once uses one of them. */
export class HostFailure extends UpstreamFailure {
  constructor({ error, isRetryable, cause }: UpstreamFailure) {
    super({ error, isRetryable, isUnhealthy: false, retryAfterMs: 0 }, { cause });
  }
}

function failure(
  message: string,
  {
    isTimeout = false,
    isRetryable = false,
    isUnhealthy = false,
    cause,
  }: {
    readonly isTimeout?: boolean;
    readonly isRetryable?: boolean;
    readonly isUnhealthy?: boolean;
    readonly cause?: unknown;
  } = {},
): UpstreamFailure {
  const error = new WireError(isTimeout ? 504 : 502, 'upstream_error', message, {
    code: isTimeout ? 'upstream_timeout' : 'upstream_failed',
  });
  return new UpstreamFailure({ error, isRetryable, isUnhealthy }, { cause });
}

const seconds = (ms: number): string => `${ms / 1000} seconds`;

/** The system's error code only, because its messages contain addresses. */
function codeSuffix(error: unknown): string {
  const code = systemCode(error);
  return code === undefined ? '' : ` (${code.replace(/^UND_ERR_/, '').toLowerCase()})`;
}

import { invalidRequest } from '../../errors.ts';

/** Of as many as a body can be wrong in. */
const mostTold = 50;

/** All that is wrong with a request, collected to be said at once. */
export class Problems {
  readonly #found: { readonly path: string; readonly message: string }[] = [];
  #code: string | undefined;

  /** @param path dotted, `messages.0.content` */
  add(path: string, message: string): void {
    this.#found.push({ path, message });
  }

  /** What is well-formed, but cannot be had here. */
  refuse(path: string, message: string): void {
    this.#code ??= 'unsupported_parameter';
    this.add(path, message);
  }

  /** @throws GatewayError 400 where there are any */
  check(): void {
    const [first] = this.#found;
    if (!first) return;
    const told = this.#found.slice(0, mostTold);
    const rest = this.#found.length - told.length;
    const message = [
      ...told.map(({ path, message: what }) => `${path}: ${what}`),
      ...(rest > 0 ? [`and ${rest} more`] : []),
    ].join('; ');
    throw invalidRequest(`${message}.`, {
      param: first.path,
      violations: told,
      ...(this.#code === undefined ? {} : { code: this.#code }),
    });
  }
}

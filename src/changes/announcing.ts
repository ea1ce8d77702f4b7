/** What a call of a method changes. It is announced when the call ends, whether or not it fails. */
type Announcements<Target> = {
  readonly [Name in keyof Target]?: Target[Name] extends (...args: infer Arguments) => unknown
    ? (...args: Arguments) => void
    : never;
};

/** Wraps a service so that calls of some methods are announced. All else is as it was. */
export function announcing<Target extends object>(
  target: Target,
  announcements: Announcements<Target>,
): Target {
  return new Proxy(target, {
    get(_, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      // Private members exist on the target only.
      const call = (...args: unknown[]): unknown => Reflect.apply(member, target, args) as unknown;
      const announce = Object.hasOwn(announcements, name) ? announcements[name as keyof Target] : undefined;
      if (!announce) return call;
      return (...args: unknown[]): unknown => {
        const result = call(...args);
        if (result instanceof Promise) return result.finally(() => announce(...args));
        announce(...args);
        return result;
      };
    },
  });
}

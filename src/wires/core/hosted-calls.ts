/** Upper limit of the calls of tools that a provider runs, which a request may ask for. */
export const maxCallCount = 1000;

export const isCallCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= maxCallCount;

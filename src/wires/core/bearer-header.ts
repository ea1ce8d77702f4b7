/** The header of a credential on most wires. */
export const bearerHeader = (key: string): Readonly<Record<string, string>> => ({
  authorization: `Bearer ${key}`,
});

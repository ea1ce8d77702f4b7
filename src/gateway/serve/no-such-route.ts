const longest = 200;

/** What is said of a path that leads nowhere; mostly a client's base URL has `/v1` twice, or not at all. */
export function noSuchRoute(
  method: string,
  path: string,
  { basePath, paths }: { basePath: string; paths: readonly string[] },
): string {
  const inside = path.slice(basePath.length);
  const isRoute = (name: string) => paths.includes(name);
  const twice = inside.replace(/^\/v1(?=\/v1\/)/, '');
  const meant = [twice, `/v1${inside}`].find((name) => name !== inside && isRoute(name));
  const hint =
    meant === undefined
      ? `The routes begin with ${basePath}/v1, as ${basePath}/v1/chat/completions.`
      : `Did you mean ${basePath}${meant}? The base URL of OpenAI's clients ends with ${basePath}/v1, that of Anthropic's does not.`;
  return `There is no ${method} ${path.slice(0, longest)}. ${hint}`;
}

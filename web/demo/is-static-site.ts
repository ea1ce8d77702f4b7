/** Whether this is the build for static web servers, where no host serves the page. */
export const isStaticSite = import.meta.env.MODE === 'demo';

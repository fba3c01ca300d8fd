export default { test: { globalSetup: "./global-setup.cjs", include: ["**/*.vitest.mjs"] } };

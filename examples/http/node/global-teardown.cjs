module.exports = () => globalThis.stopKafka();

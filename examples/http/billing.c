// A test in C: the commit of a consumer gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
#include <curl/curl.h>
#include <librdkafka/rdkafka.h>
#include <stdlib.h>

static void post(const char *broker, const char *path, const char *given) {
    char url[256];
    CURL *curl = curl_easy_init();
    snprintf(url, sizeof url, "%s/%s", broker, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, curl_slist_append(NULL, "Content-Type: application/json"));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, given);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    if (curl_easy_perform(curl)) exit(fprintf(stderr, "%s %s: refused\n", path, given) > 0);
}

int main(int count, char **of) { // the URL of a broker with a manual clock, and its address
    if (count != 3) return 2;
    post(of[1], "create_topic", "{\"name\": \"orders\"}");
    post(of[1], "faults/error", "{\"api\": \"OffsetCommit\", \"error\": \"NOT_COORDINATOR\", \"n\": 2}");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", of[2], NULL, 0);
    rd_kafka_conf_set(conf, "group.id", "billing", NULL, 0);
    rd_kafka_t *consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, NULL, 0);
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(offsets, "orders", 0)->offset = 7;
    if (rd_kafka_commit(consumer, offsets, 0)) return 1;
    rd_kafka_topic_partition_list_destroy(offsets);
    rd_kafka_destroy(consumer);
    post(of[1], "faults/1/wait", "{\"hits\": 2, \"timeout\": 0}");
    post(of[1], "assert_committed", "{\"group\": \"billing\", \"expected\": {\"orders\": {\"0\": 7}}}");
    post(of[1], "clock/advance", "{\"days\": 8}");
    post(of[1], "assert_committed", "{\"group\": \"billing\", \"expected\": {\"orders\": {\"0\": null}}}");
}
